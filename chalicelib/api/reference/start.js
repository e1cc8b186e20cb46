// The address of the API is that of this page, and the colours follow those of the system.
const COLOURS = {
  light: {
    "bg-color": "#ffffff", "text-color": "#24292f", "primary-color": "#0b5cad", "secondary-color": "#0b5cad",
    "header-bg-color": "#ffffff", "header-color": "#24292f", "nav-bg-color": "#f3f5f7", "nav-text-color": "#24292f",
    "nav-hover-bg-color": "#e1e6ea", "nav-hover-text-color": "#0b5cad",
  },
  dark: {
    "bg-color": "#15191e", "text-color": "#e6eaee", "primary-color": "#7ab8f5", "secondary-color": "#7ab8f5",
    "header-bg-color": "#15191e", "header-color": "#e6eaee", "nav-bg-color": "#1d232a", "nav-text-color": "#e6eaee",
    "nav-hover-bg-color": "#2a323b", "nav-hover-text-color": "#7ab8f5",
  },
};
const viewer = document.querySelector("openapi-explorer");
viewer.setAttribute("server-url", new URL(".", location).href.replace(/\/$/, ""));
// On a phone the cells of the table of sign-ins are below each other.
const sheet = new CSSStyleSheet();
sheet.replaceSync("@media (max-width: 600px) { #auth td { display: block; } #auth td:last-child { padding-bottom: 24px; } }");
customElements.whenDefined("openapi-explorer").then(() => viewer.shadowRoot.adoptedStyleSheets.push(sheet));
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => {
  for (const [name, colour] of Object.entries(COLOURS[dark.matches ? "dark" : "light"])) viewer.setAttribute(name, colour);
};
paint();
dark.addEventListener("change", paint);
