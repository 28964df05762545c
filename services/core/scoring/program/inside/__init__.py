"""What runs within the sandbox, beside the program: standard library only, carried there as text (see ``bundle``).

Nothing here is trusted once a program was loaded into the same process. What comes back is judged outside.
"""
