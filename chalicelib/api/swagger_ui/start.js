// Relative to the page, so that it works below a stage's path too.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#calls",
  deepLinking: true,
  validatorUrl: null, // nothing leaves the page
});
