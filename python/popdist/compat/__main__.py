"""`python -m popdist.compat`: lists the names that the stand-ins offer."""

from popdist.compat import OFFERED

for module, offered in OFFERED.items():
    print(f"{module}: {', '.join(offered)}")
