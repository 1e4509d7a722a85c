"""From an iteration to an explained decision. Pure: the same iteration, memory and policy always decide the same."""
