"""Trains the generator with the sites of the federation, at the centre."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from gossamer.run.cli.flower_app import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run as the run config says. The run folder is `out`, on this machine."""
    serve(grid, context.run_config)
