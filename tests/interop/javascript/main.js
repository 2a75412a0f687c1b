// The JavaScript SDK, unmodified, against the emulator.
//
//     node main.js ENDPOINT KEY PARTITIONS [PART OF A SCENARIO'S SENTENCE]

import "./scenarios/accounts.js";
import "./scenarios/items.js";
import "./scenarios/batches.js";
import "./scenarios/bulk.js";
import "./scenarios/queries.js";
import "./scenarios/paging.js";
import "./scenarios/changeFeed.js";
import "./scenarios/hierarchicalKeys.js";
import "./scenarios/serviceRules.js";
import { Account, run } from "./harness.js";

const [endpoint, key, partitions, wanted = ""] = process.argv.slice(2);
const account = new Account(endpoint, key, Number(partitions));
await account.open();
const failed = await run(account, wanted);
account.client.dispose();
process.exit(failed > 0 ? 1 : 0);
