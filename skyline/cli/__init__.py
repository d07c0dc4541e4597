"""The ``skyline`` command: one module per subcommand, each imported only when it runs."""
