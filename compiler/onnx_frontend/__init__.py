"""Import of ONNX models: a model file to an IRModule, operator by operator (``relay.frontend.from_onnx``)."""
