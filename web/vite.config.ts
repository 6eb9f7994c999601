import { defineConfig } from "vitest/config";

export default defineConfig({
  esbuild: { jsx: "automatic" },
  build: {
    target: "es2022",
    sourcemap: false,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // The content policy allows no data: scripts, and files cache better.
    reportCompressedSize: false,
    rollupOptions: {
      onwarn: (warning, warn) => {
        // "use client" is for servers that render; there is none.
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
      },
    },
  },
  test: { include: ["test/**/*.test.ts"], environment: "node" },
});
