"""A simulation as it is asked for: options, the trace or log, the report, the picture."""
