"""The one exception for mistakes that a user can put right."""


class UserError(ValueError):
    """Something given by the user does not fit; the message says what was given, what was expected and what to do.

    The command line prints the message without a traceback and exits with 1.
    """
