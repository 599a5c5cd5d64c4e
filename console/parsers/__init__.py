"""Foreign spelling in, models out: pure functions, nothing awaited.

Every kind of API object has a narrow wire type (only the fields that are used, all of them optional) and one function
that makes the model of it. `kinds` lists them, `page` reads lists and watch lines of any of them from bytes.
"""
