"""Plants the bugs of mutants.toml, one at a time, and sees that the tests catch each.

A copy of the sources is built without MPI; the checkout is never changed. First the copy as it is
must pass. Ends with a table, and with 1 unless every bug was caught. A name, or a part of it, as an
argument picks some of the mutants.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = pathlib.Path(os.environ.get("STRIDIO_MUTANTS_DIR", ROOT / "build" / "mutants"))
TREE, BUILD = WORK / "tree", WORK / "build"

# What looks at a mutant: a test binary, its arguments, and how many cases of the property test. A fuzzer is one too.
TESTS = {
    "access": ("property", ["--gtest_filter=Access*"], 16800),
    "group": ("group_test", ["--gtest_filter=GroupScale*"], None),
    "shared_group": ("shared_group_test", [], None),
    "plan_unit": ("plan_test", [], None),
    "file_unit": ("file_test", [], None),
    "file": ("property", ["--gtest_filter=File*"], 4000),
    "plan": ("property", ["--gtest_filter=Plan*"], 2000),
    "sieve_race": ("property", ["--gtest_filter=SieveRace*"], None),
    "decode": ("property", ["--gtest_filter=Decode*"], None),
    "pattern": ("pattern_test", [], None),
    "access_unit": ("access_test", [], None),
    "base": ("base_test", [], None),
    "collective_unit": ("collective_test", [], None),
    "sets": ("sets_test", [], None),
    "lock": ("lock_test", [], None),
    "atomicity": ("atomicity_test", [], None),
    "storage": ("storage_test", [], None),
    "conformance": ("storage_conformance_test", [], None),
    "interval": ("interval_test", [], None),
    "cached": ("cached_test", [], None),
    "translate": ("translate_test", [], None),
    "wait": ("wait_test", [], None),
    "refresh": ("refresh_test", [], None),
    "replacement": ("replacement_test", [], None),
    "conflicts": ("conflicts_test", [], None),
    "profiles": ("profiles_test", [], None),
    "interval_crash": ("interval_crash_test", [], None),
    "interval_fault": ("interval_fault_test", [], None),
    "interval_fuzz": ("interval_fuzz", ["-max_total_time=60", "-max_len=4096", "-len_control=0", "-seed=1",
                                        "-rss_limit_mb=1024", "-timeout=5"], None),
}
FUZZERS = {"interval_fuzz": "fuzz_interval"}  # of a test, what builds it: by clang++, where there is one
SEED = "1"  # the same cases in every run
LIMIT = 120  # seconds: a test that hangs has caught the mutant as well


def run(command, **options):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def copy_sources():
    """The files that git knows or would take; those that did not change keep their time."""
    listed = run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True).stdout
    wanted = {name for name in listed.splitlines() if (ROOT / name).is_file()}
    for name in wanted:
        source, target = ROOT / name, TREE / name
        if not target.exists() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for target in TREE.rglob("*"):
        if target.is_file() and str(target.relative_to(TREE)) not in wanted:
            target.unlink()


def build(tests):
    """None, or what the compiler says."""
    targets = sorted({FUZZERS.get(test, TESTS[test][0]) for test in tests})
    done = run(["cmake", "--build", BUILD, "--target", *targets],
               env={**os.environ, "CCACHE_BASEDIR": str(TREE),
                    "CCACHE_SLOPPINESS": "pch_defines,time_macros"})
    return None if done.returncode == 0 else done.stdout[-3000:]


def configure():
    launchers = [f"-DCMAKE_{lang}_COMPILER_LAUNCHER=ccache" for lang in ("C", "CXX")] if shutil.which("ccache") else []
    done = run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                "-DSTRIDIO_MPI=OFF", *launchers])
    if done.returncode != 0:
        sys.exit(done.stdout)
    if "STRIDIO_FUZZER_WORKS:INTERNAL=ON" not in (BUILD / "CMakeCache.txt").read_text():
        for test in FUZZERS:
            del TESTS[test]


def catch(test):
    """How the test fails, in a few words; None if it passes."""
    binary, arguments, cases = TESTS[test]
    environment = {**os.environ, "STRIDIO_SEED": SEED}
    environment.pop("STRIDIO_CASES", None)
    if cases:
        environment["STRIDIO_CASES"] = str(cases)
    options = [f"-artifact_prefix={WORK}/"] if test in FUZZERS else ["--gtest_brief=1", "--gtest_fail_fast"]
    command = [BUILD / "bin" / binary, *options, *arguments]
    try:
        done = run(command, env=environment, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"{test}: does not end"
    if done.returncode == 0:
        return None
    if "a case hangs" in done.stdout:
        return f"{test}: hangs"
    failed = re.findall(r"^\[  FAILED  \] (\S+)", done.stdout, re.M)
    return f"{test}: {failed[0].rstrip(',')}" if failed else f"{test}: crashes ({done.returncode})"


def plant(mutant):
    """Changes the copy; what undoes it, or None if the place is not there. Line breaks do not matter."""
    path = TREE / mutant["file"]
    text = path.read_text()
    place = r"\s+".join(re.escape(word) for word in mutant["old"].split()).replace(r"\(", r"\(\s*")
    changed, times = re.subn(place, lambda _: mutant["new"], text)
    if times != 1:
        return None
    path.write_text(changed)
    return lambda: path.write_text(text)


def judge(mutant):
    """Whether it was caught, and by what."""
    undo = plant(mutant)
    if undo is None:
        return False, f"does not apply: {mutant['file']} changed"
    try:
        if build(mutant["tests"]) is not None:
            return False, "does not compile"
        for test in mutant["tests"]:
            if caught := catch(test):
                return True, caught
        return False, "NOT CAUGHT by " + ", ".join(mutant["tests"])
    finally:
        undo()


def processor_flags():
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found[1].split() if found else []


def check_unmutated():
    if complaint := build(TESTS):
        sys.exit(f"the sources do not build:\n{complaint}")
    for test in TESTS:
        if failed := catch(test):
            sys.exit(f"the sources as they are fail {failed}")


def main():
    mutants = tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]
    mutants = [m for m in mutants if not sys.argv[1:] or any(part in m["name"] for part in sys.argv[1:])]
    began = time.monotonic()
    copy_sources()
    configure()
    check_unmutated()
    print(f"the sources as they are pass ({time.monotonic() - began:.0f} s)", flush=True)
    width = max(len(mutant["name"]) for mutant in mutants)
    flags = processor_flags()
    for mutant in [m for m in mutants if "needs" in m and m["needs"] not in flags]:
        print(f"{mutant['name']:{width}}  not planted: the processor has no {mutant['needs']}", flush=True)
        mutants.remove(mutant)
    for mutant in [m for m in mutants if set(m["tests"]) - TESTS.keys()]:
        print(f"{mutant['name']:{width}}  not planted: no clang++ makes the fuzzer", flush=True)
        mutants.remove(mutant)
    failures = 0
    for mutant in mutants:
        start = time.monotonic()
        caught, how = judge(mutant)
        failures += not caught
        print(f"{mutant['name']:{width}}  {how}  ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{len(mutants) - failures} of {len(mutants)} planted bugs caught ({time.monotonic() - began:.0f} s)")
    sys.exit(1 if failures else 0)


main()
