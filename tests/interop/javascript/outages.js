// The JavaScript SDK, unmodified, through outages of an account with several regions.
//
//     node outages.js EMULATOR TRANSPORT CERTIFICATE_DIR [PART OF A SCENARIO'S SENTENCE]

import "./scenarios/outages.js";
import { run } from "./harness.js";
import { Laboratory } from "./regional.js";

const [emulator, transport, certificateDir, wanted = ""] = process.argv.slice(2);
const failed = await run(new Laboratory(emulator, transport, certificateDir), wanted);
process.exit(failed > 0 ? 1 : 0);
