// The comments of this browser's visitors that wait for approval. No list of the API has them.

const KEY = "hubbub.pending";
const MOST = 100; // comments that are remembered

let pending = []; // where the browser forbids storage, they last until the page is closed

function read() {
  try {
    pending = JSON.parse(localStorage.getItem(KEY)) ?? pending;
  } catch { /* there is no storage, or something else in it */ }
  return pending;
}

function write(all) {
  pending = all.slice(-MOST);
  try {
    localStorage.setItem(KEY, JSON.stringify(pending));
  } catch { /* the browser forbids storage */ }
}

/** Return the ids of the comments on a product that may be pending. */
export const readPending = (product) => read().filter(([on]) => on === product).map(([, id]) => id);

export const remember = (product, id) => write([...read().filter(([, other]) => other !== id), [product, id]]);

export const forget = (id) => read().some(([, other]) => other === id) && write(read().filter(([, other]) => other !== id));
