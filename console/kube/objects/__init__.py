"""One module per kind of API object: its wire types, its model, and the parser between them."""
