"""List the versions of the site in FOLDER for its version selector: docs_versions.py FOLDER."""

import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
names = sorted((page.parent.name for page in folder.glob("*/index.html")), reverse=True)
listed = [{"version": name, "title": name, "aliases": []} for name in names]
(folder / "versions.json").write_text(json.dumps(listed))
print(f"{folder}: {', '.join(names)}")
