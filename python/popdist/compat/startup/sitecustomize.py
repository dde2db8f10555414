"""Python runs this file when it starts under poprun. It appends the stand-ins to the search path,
so that installed packages come first, and runs another sitecustomize that it hides."""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_stand_ins = os.environ.get("POPDIST_COMPAT")
if _stand_ins and _stand_ins not in sys.path:
    sys.path.append(_stand_ins)
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _here]
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _hidden is not None and _hidden.loader is not None:
    sys.modules[__name__] = importlib.util.module_from_spec(_hidden)
    _hidden.loader.exec_module(sys.modules[__name__])
