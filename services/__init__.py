"""The packages of Trinity below its processes: pure rules in ``core``, one edge package per outside thing."""
