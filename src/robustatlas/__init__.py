"""robustatlas: how robust is a classifier, globally?"""
