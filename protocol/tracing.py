from contextlib import contextmanager
def inject(h): pass
def extract(h): return None
@contextmanager
def span(name,*,kind="internal",attributes=None,parent=None,links=()):
    yield None
