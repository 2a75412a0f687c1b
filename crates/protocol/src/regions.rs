//! The Azure regions with a name of their own here: data, nothing else.
//!
//! A region missing from this list works all the same; [`RegionName`] takes any name.

use crate::region::RegionName;

macro_rules! regions {
    ($( $constant:ident = $name:literal; )+) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub const $constant: RegionName = RegionName::from_static($name);
        )+

        /// Every region of this list, in alphabetical order.
        pub const ALL: &[RegionName] = &[$( $constant, )+];
    };
}

regions! {
    AUSTRALIA_CENTRAL = "Australia Central";
    AUSTRALIA_CENTRAL_2 = "Australia Central 2";
    AUSTRALIA_EAST = "Australia East";
    AUSTRALIA_SOUTHEAST = "Australia Southeast";
    AUSTRIA_EAST = "Austria East";
    BELGIUM_CENTRAL = "Belgium Central";
    BRAZIL_SOUTH = "Brazil South";
    BRAZIL_SOUTHEAST = "Brazil Southeast";
    CANADA_CENTRAL = "Canada Central";
    CANADA_EAST = "Canada East";
    CENTRAL_INDIA = "Central India";
    CENTRAL_US = "Central US";
    CENTRAL_US_EUAP = "Central US EUAP";
    CHILE_CENTRAL = "Chile Central";
    CHINA_EAST = "China East";
    CHINA_EAST_2 = "China East 2";
    CHINA_EAST_3 = "China East 3";
    CHINA_NORTH = "China North";
    CHINA_NORTH_2 = "China North 2";
    CHINA_NORTH_3 = "China North 3";
    EAST_ASIA = "East Asia";
    EAST_US = "East US";
    EAST_US_2 = "East US 2";
    EAST_US_2_EUAP = "East US 2 EUAP";
    EAST_US_3 = "East US 3";
    FRANCE_CENTRAL = "France Central";
    FRANCE_SOUTH = "France South";
    GERMANY_NORTH = "Germany North";
    GERMANY_WEST_CENTRAL = "Germany West Central";
    INDONESIA_CENTRAL = "Indonesia Central";
    ISRAEL_CENTRAL = "Israel Central";
    ITALY_NORTH = "Italy North";
    JAPAN_EAST = "Japan East";
    JAPAN_WEST = "Japan West";
    JIO_INDIA_CENTRAL = "Jio India Central";
    JIO_INDIA_WEST = "Jio India West";
    KOREA_CENTRAL = "Korea Central";
    KOREA_SOUTH = "Korea South";
    MALAYSIA_WEST = "Malaysia West";
    MEXICO_CENTRAL = "Mexico Central";
    NEW_ZEALAND_NORTH = "New Zealand North";
    NORTH_CENTRAL_US = "North Central US";
    NORTH_EUROPE = "North Europe";
    NORWAY_EAST = "Norway East";
    NORWAY_WEST = "Norway West";
    POLAND_CENTRAL = "Poland Central";
    QATAR_CENTRAL = "Qatar Central";
    SOUTH_AFRICA_NORTH = "South Africa North";
    SOUTH_AFRICA_WEST = "South Africa West";
    SOUTH_CENTRAL_US = "South Central US";
    SOUTH_INDIA = "South India";
    SOUTHEAST_ASIA = "Southeast Asia";
    SPAIN_CENTRAL = "Spain Central";
    SWEDEN_CENTRAL = "Sweden Central";
    SWEDEN_SOUTH = "Sweden South";
    SWITZERLAND_NORTH = "Switzerland North";
    SWITZERLAND_WEST = "Switzerland West";
    UAE_CENTRAL = "UAE Central";
    UAE_NORTH = "UAE North";
    UK_SOUTH = "UK South";
    UK_WEST = "UK West";
    US_DOD_CENTRAL = "US DoD Central";
    US_DOD_EAST = "US DoD East";
    US_GOV_ARIZONA = "US Gov Arizona";
    US_GOV_TEXAS = "US Gov Texas";
    US_GOV_VIRGINIA = "US Gov Virginia";
    WEST_CENTRAL_US = "West Central US";
    WEST_EUROPE = "West Europe";
    WEST_INDIA = "West India";
    WEST_US = "West US";
    WEST_US_2 = "West US 2";
    WEST_US_3 = "West US 3";
}
