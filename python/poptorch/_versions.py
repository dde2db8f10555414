"""The versions of PopTorch and of its dependencies, which poptorch_core/versions.py states."""

from poptorch_core.versions import ONEDNN as ONEDNN, VERSION as VERSION
