"""`python -m astra_tacos`: the command line."""

from astra_tacos.cli.main import main

if __name__ == "__main__":
    main()
