from contextlib import contextmanager
class T:
    def shutdown(self): pass
def configure(*,service,trace_dir): return T()
class L:
    def answered(self,**k): pass
@contextmanager
def llm_span(model,conversation=""): yield L()
