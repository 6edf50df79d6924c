from contextlib import contextmanager
class R:
    def decided(self, step, landed): pass
@contextmanager
def step_span(actor, at, state): yield R()
