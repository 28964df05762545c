"""A place where hostile programs run: ``CodeRunner`` behind one process that owns and ends all its children.

``opening.open_runner`` chooses what this machine can do (bubblewrap, else Landlock), tests it, and refuses when neither
holds. A program never runs without one of them.
"""
