"""Records a method's example: `source` parses its code, `tracer` runs it and records tensors."""
