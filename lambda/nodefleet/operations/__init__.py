"""What is under way, and what comes next for it. Pure: resuming after a crash is advancing once more.

advance    the one way in: the next steps of any operation
launch     from a request to ready nodes
removal    from a cordon to a machine that is gone, or back
cleanup    what was left behind
lessons    what their course teaches the memory
"""
