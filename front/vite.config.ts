import { defineConfig } from "vitest/config";

// One ES module with everything in it, styles too: the served page, the notebook widget and a saved file carry the same.
export default defineConfig({
  build: {
    lib: { entry: "src/index.ts", formats: ["es"], fileName: () => "viewer.js" },
    outDir: "../src/headwise/viewer/assets",
    emptyOutDir: false,
    target: "es2022",
    rolldownOptions: { output: { banner: "// Built from front/ by `make viewer`: edit it there." } },
  },
  // The limits end what hangs. How long a test takes is no part of what it says, on a machine that does other things too.
  test: { environment: "jsdom", include: ["test/**/*.test.ts"], testTimeout: 300_000, hookTimeout: 300_000 },
});
