"""A whole deployment on real parts: what `README.md` here says how to use."""
