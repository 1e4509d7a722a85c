"""What is under way, and what comes next for it. Pure: resuming after a crash is advancing once more.

advance    the one way in: the next steps of any operation
launch     from a request to ready nodes; joining says what became of each instance
removal    from a cordon to an instance that is gone, or back
cleanup    Nodes without an instance, and instances that never became a node
lessons    what their course teaches the memory
progress   what one look at an operation comes to, and in which order its steps are taken
"""
