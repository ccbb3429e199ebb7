"""Sessions with the interface of onnxruntime, over the machine: ``relayvm.onnxruntime``."""
