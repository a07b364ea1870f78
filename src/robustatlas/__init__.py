"""robustatlas: how robust is a classifier, globally? Many threat models, every strength, per sample.

What is named here is imported when it is first used, so that metrics and the command line's help do not wait for torch.

Example:
    >>> import robustatlas as ra
    >>> sorted(name for name in ra.__all__ if name.startswith("load"))
    ['load_dataset', 'load_model', 'load_reference', 'load_result']
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # __init__.pyi names them
