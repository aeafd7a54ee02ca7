"""How far each query has come in a stream: one module for each kind of windows."""
