/**
 * What this plugin uses of OpenClaw's plugin interface (2026.9), and no more: the host's own types come with 650 MB.
 * Fields that are not named here are not read, so they cannot leave the process.
 */
export {};
