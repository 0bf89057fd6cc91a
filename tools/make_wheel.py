#!/usr/bin/env python3
"""Makes a wheel of a folder that holds the program with its libraries. tools/make-packages.sh runs it:

    make_wheel.py FOLDER VERSION GLIBC MACHINE OUT      GLIBC: the least one that runs it, such as 2.36
"""
import base64
import hashlib
import pathlib
import sys
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "linea_attention"


def main():
    folder, version, glibc, machine, out = sys.argv[1:]
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{machine}"
    info = f"{PACKAGE}-{version}.dist-info"
    files = {f"{PACKAGE}/__init__.py": SOURCE / "python/__init__.py",
             f"{PACKAGE}/linea_model.py": SOURCE / "tools/linea_model.py",
             f"{info}/licenses/LICENSE": SOURCE / "LICENSE"}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and path.relative_to(folder).parts[0] in ("bin", "lib"):
            files[f"{PACKAGE}/{path.relative_to(folder)}"] = path
    for path in sorted((pathlib.Path(folder) / "share/doc/licences").iterdir()):
        files[f"{info}/licenses/{path.name}"] = path
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents[f"{info}/METADATA"] = f"""Metadata-Version: 2.1
Name: {PACKAGE.replace("_", "-")}
Version: {version}
Summary: Trains Performers and linear Transformers on images and text; samples from the trained models
License: MIT
Requires-Python: >=3.8
Requires-Dist: numpy
Description-Content-Type: text/markdown

{(SOURCE / "python/README.md").read_text()}""".encode()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: linea\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    contents[f"{info}/entry_points.txt"] = f"[console_scripts]\nlinea = {PACKAGE}:main\n".encode()
    record = f"{info}/RECORD"
    lines = []
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    contents[record] = ("".join(lines) + f"{record},,\n").encode()
    wheel = pathlib.Path(out) / f"{PACKAGE}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name)  # of 1980, so that the same files make the same wheel
            entry.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


main()
