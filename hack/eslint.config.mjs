// Rules for the page's modules; none needs a package.
const browser = Object.fromEntries(
  ["document", "window", "location", "history", "performance", "matchMedia", "localStorage", "navigator", "devicePixelRatio", "innerHeight", "globalThis",
    "requestAnimationFrame", "requestIdleCallback", "cancelAnimationFrame", "addEventListener", "dispatchEvent", "setTimeout", "clearTimeout", "setInterval", "fetch", "atob", "EventSource",
    "ResizeObserver", "HashChangeEvent", "HTMLElement", "Node", "Path2D", "URLSearchParams", "Response", "Blob", "DecompressionStream",
    "TextDecoder", "TextDecoderStream", "AbortController", "Intl"].map((name) => [name, "readonly"]),
);

export default [
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: browser },
    linterOptions: { reportUnusedDisableDirectives: true },
    rules: {
      "no-undef": "error",
      "no-unused-vars": ["error", { args: "after-used" }],
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-restricted-properties": ["error",
        { property: "innerHTML", message: "text is text: use textContent" },
        { property: "outerHTML", message: "text is text: use textContent" },
        { property: "insertAdjacentHTML", message: "text is text: use textContent" }],
      "max-lines": ["error", 400],
      "no-shadow": "error",
    },
  },
];
