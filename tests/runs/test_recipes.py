"""Recipes of docs/scale.md for batch systems."""

from __future__ import annotations

from dask_jobqueue import SLURMCluster


def test_the_job_script_for_slurm_starts_single_threaded_workers() -> None:
    with SLURMCluster(
        queue="normal",
        cores=16,
        processes=16,
        memory="64GB",
        walltime="04:00:00",
        job_script_prologue=["export OMP_NUM_THREADS=1"],
        scheduler_options={"dashboard_address": ":0", "host": "127.0.0.1"},
    ) as cluster:
        script, address = cluster.job_script(), cluster.scheduler_address
    lines = script.splitlines()
    assert "#SBATCH -p normal" in lines
    assert "#SBATCH --cpus-per-task=16" in lines
    assert "#SBATCH -t 04:00:00" in lines
    (start,) = (line for line in lines if "dask_worker" in line)
    assert f" {address} " in start
    assert "--nthreads 1" in start
    assert "--nworkers 16" in start
    assert lines.index("export OMP_NUM_THREADS=1") < lines.index(start)
