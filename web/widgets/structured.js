// A product's rating for search engines, as schema.org's AggregateRating.

/** Write statistics into a script element, and put it into the page. Without ratings it is removed. */
export function describe(script, name, { total, average, ratings }) {
  if (average === null) return script.remove();
  script.textContent = JSON.stringify({
    "@context": "https://schema.org",
    "@type": "AggregateRating",
    itemReviewed: { "@type": "Product", name },
    ratingValue: average,
    ratingCount: Object.values(ratings).reduce((sum, count) => sum + count, 0),
    reviewCount: total,
    bestRating: 5,
    worstRating: 1,
  }).replaceAll("<", "\\u003c");
  document.head.append(script);
}
