"""The first layer: how classes and registries are declared: records, and what is imported or made when it is first needed."""
