"""Operators of the domain ai.onnx.ml: models of tables, as exporters of scikit-learn write them."""
