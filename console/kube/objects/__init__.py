"""One kind of object a module: how the API writes it, what is read of it, and the parser between."""
