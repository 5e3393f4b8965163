"""The package runs nothing that comes from a file: no pickles, no eval, no shell.

The only exception: values of a cluster's workers are pickles in a private folder.
"""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
MODULES = {
    "pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "code", "codeop",
    "runpy", "subprocess", "pty", "ctypes", "yaml",
}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {"system", "popen", "execv", "execve", "execvp", "spawnl", "spawnv", "startfile"}
ARGUMENTS = {"shell", "allow_pickle"}
ALLOWED = {
    "trajcloak/engines/shard_files.py": ["pickle", "pickle.dumps", "pickle.loads"],
    "trajcloak/engines/spark.py": [
        "cloudpickle.dumps",
        "pickle",
        "pickle.loads",
        "subprocess",
        "subprocess.run",
    ],
}
"""Shards in a folder that is private to the workers; calls that Spark brings from the client, as
dask does on its own; and the question which version of Java there is."""


def list_dangers(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] * ((node.module or "").split(".")[0] in MODULES)
        elif isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id in CALLS:
                found.append(function.id)
            if isinstance(function, ast.Attribute):
                found += [function.attr] * (function.attr in METHODS)
                owner = function.value.id if isinstance(function.value, ast.Name) else ""
                found += [f"{owner}.{function.attr}"] * (owner in MODULES)
            found += [word.arg for word in node.keywords if word.arg in ARGUMENTS]
    return found


def test_nothing_is_run():
    files = {file.relative_to(SOURCE).as_posix(): file.read_text() for file in SOURCE.rglob("*.py")}
    assert len(files) > 50
    dangers = {name: sorted(list_dangers(text)) for name, text in files.items()}
    assert {name: found for name, found in dangers.items() if found} == ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import numpy, subprocess as s",
        "from marshal import loads",
        "def f():\n    from pickle import loads",
        "pickle.loads(x)",
        "eval('1')",
        "x = [exec(t) for t in y]",
        "os.system('ls')",
        "run('ls', shell=False)",
        "np.load(f, allow_pickle=True)",
    ],
)
def test_what_is_dangerous_is_found(text):
    assert len(list_dangers(text)) == 1
