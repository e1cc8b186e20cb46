import * as client from "../../../web/lib/hubbub.js";
import { run } from "./story.js";

process.stdout.write(JSON.stringify(await run(client, ...process.argv.slice(2))));
process.exit(0);
