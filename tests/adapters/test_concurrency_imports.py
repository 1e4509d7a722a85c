"""What is imported late is imported by one thread at a time: a fresh process, as a cold start is."""

import subprocess
import sys

COLD_START = """
import sys, time
from datetime import timedelta
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from threading import Thread

class SlowDisk(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "requests.packages":  # by then the package is begun, and requests.utils is not there yet
            return None
        spec = PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (time.sleep(2), run(module))
        return spec

sys.meta_path.insert(0, SlowDisk())
from nodefleet.adapters.kubernetes.cluster import from_kubeconfig
from nodefleet.adapters.prometheus import PrometheusClient

said = []

def prometheus():
    said.append(str(PrometheusClient("http://127.0.0.1:9").ask("up", timedelta(seconds=1))))

def kubernetes():
    try:
        from_kubeconfig("/nowhere")
    except Exception as error:
        said.append(repr(error))

threads = [Thread(target=prometheus), Thread(target=kubernetes)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\\n".join(said))
"""


def test_a_cold_start_that_asks_prometheus_and_kubernetes_at_once_imports_both() -> None:
    command = [sys.executable, "-c", COLD_START]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stderr
    said = run.stdout.splitlines()
    assert len(said) == 2
    assert not [line for line in said if "import" in line]
