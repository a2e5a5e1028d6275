/**
 * Whose word a workspace's memory files are. Without this answer OpenClaw leaves MEMORY.md and USER.md out of the
 * system prompt. Nothing of ours writes them: they are the owner's and the agent's own, as long as they really lie in
 * the workspace.
 */

import { realpath } from "node:fs/promises";
import { join, relative } from "node:path";

import type { PathOrigin, WorkspacePaths } from "./host.ts";

const OWN = new Set(["MEMORY.md", "memory.md", "USER.md"]);

export async function classifyPaths(params: WorkspacePaths): Promise<PathOrigin[]> {
  return Promise.all(
    params.relativePaths.map(async (relativePath) => {
      const real = await realPath(params, relativePath);
      return { relativePath, originClass: real !== undefined && OWN.has(real) ? "agent" : "untrusted" };
    }),
  );
}

/** Where a file really lies, below the workspace; a remote workspace says so itself. */
async function realPath(params: WorkspacePaths, path: string): Promise<string | undefined> {
  if (params.readSources) {
    return params.readSources.find(({ relativePath }) => relativePath === path)?.canonicalRelativePath;
  }
  try {
    return relative(await realpath(params.workspaceDir), await realpath(join(params.workspaceDir, path)));
  } catch {
    return undefined;
  }
}
