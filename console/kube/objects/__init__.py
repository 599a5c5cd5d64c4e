"""One module per kind of API object: its schema in the API's JSON, its model, and the parser between them."""
