"""The answers to requests, one module per family of APIs."""
