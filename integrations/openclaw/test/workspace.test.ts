import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { classifyPaths } from "../src/workspace.ts";

test("memory files are the agent's own only where they really lie in the workspace", async () => {
  const folder = mkdtempSync(join(tmpdir(), "workspace-"));
  const workspaceDir = join(folder, "workspace");
  mkdirSync(workspaceDir);
  writeFileSync(join(folder, "elsewhere.md"), "x");
  writeFileSync(join(workspaceDir, "MEMORY.md"), "x");
  symlinkSync(join(folder, "elsewhere.md"), join(workspaceDir, "USER.md"));
  const relativePaths = ["MEMORY.md", "USER.md", "memory.md", "../elsewhere.md", "../workspace/MEMORY.md"];
  const origins = (await classifyPaths({ workspaceDir, relativePaths })).map(({ originClass }) => originClass);
  assert.deepEqual(origins, ["agent", "untrusted", "untrusted", "untrusted", "agent"]);
});

test("of a remote workspace only a file that is named is known", async () => {
  const readSources = [{ relativePath: "MEMORY.md", canonicalRelativePath: "MEMORY.md" }, { relativePath: "USER.md" }];
  const relativePaths = ["MEMORY.md", "USER.md"];
  assert.deepEqual(await classifyPaths({ workspaceDir: "/nowhere", relativePaths, readSources }), [
    { relativePath: "MEMORY.md", originClass: "agent" },
    { relativePath: "USER.md", originClass: "untrusted" },
  ]);
});
