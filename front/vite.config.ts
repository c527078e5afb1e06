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
  test: { environment: "jsdom", include: ["test/**/*.test.ts"] },
});
