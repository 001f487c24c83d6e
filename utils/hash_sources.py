"""Write the SHA-256 of files as a C++ string constant: OUTPUT FILE..."""

import hashlib
import pathlib
import sys

digest = hashlib.sha256()
for name in sorted(sys.argv[2:]):
    digest.update(pathlib.Path(name).read_bytes())
    digest.update(b"\0")
text = f'static constexpr char kSourceHash[] = "{digest.hexdigest()}";\n'
pathlib.Path(sys.argv[1]).write_text(text)
