"""What happens to an object on its way into storage: defaults are filled in, and what is wrong is refused.

The texts are those of the API server's own strategies and of the webhooks of JobSet and Kueue.
"""
