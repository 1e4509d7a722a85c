"""From a look to an explained decision. Pure: the same look, memory and policy always decide the same."""
