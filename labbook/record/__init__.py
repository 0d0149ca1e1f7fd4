"""The story of a recorded run: `session.record` begins it, `recover.recover` finishes what a dead recorder left."""
