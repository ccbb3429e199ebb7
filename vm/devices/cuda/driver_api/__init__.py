"""The driver of CUDA: functions, devices, other libraries in the process, calls by address."""
